WITH bounds AS (
  SELECT section, name, number FROM settings WHERE relation = 'used' AND name IN (:first, :last)
), steps AS (
  SELECT DISTINCT low.section
  FROM bounds low JOIN bounds high ON high.section = low.section
  WHERE low.name = :first AND high.name = :last AND low.number >= :from AND high.number <= :to
), trainings AS (
  SELECT DISTINCT f.section AS training
  FROM steps
  JOIN lineage l ON l.kind = 'made_by' AND l.behind = steps.section
  JOIN flows f ON f.data = l.ref AND f.relation = 'learned'
), epochs AS (
  SELECT s.stage AS training, s.section, s.idx AS epoch
  FROM trainings r JOIN sections s ON s.stage = r.training
  WHERE s.trains
), validations AS (
  SELECT v.section AS validation, e.section FROM epochs e JOIN sections v ON v.validates = e.section
), pairs AS (
  SELECT p.section, 'setting' AS kind, p.name, p.number, p.text, p.type
  FROM settings p JOIN epochs e ON e.section = p.section
  WHERE p.relation = 'in_force' OR (p.relation = 'produced' AND p.kind = 'model')
  UNION
  SELECT m.section, 'measure', m.name, m.number, m.text, m.type
  FROM measures m JOIN epochs e ON e.section = m.section
  UNION
  SELECT v.section, 'validation setting', p.name, p.number, p.text, p.type
  FROM settings p JOIN validations v ON v.validation = p.section
  WHERE p.relation = 'in_force'
  UNION
  SELECT v.section, 'validation measure', m.name, m.number, m.text, m.type
  FROM measures m JOIN validations v ON v.validation = m.section
), repeated AS (
  SELECT section, kind, name FROM pairs GROUP BY section, kind, name HAVING count(*) > 1
), texts_of_pairs AS (
  -- the character 1 sorts names as they are; values of a repeated name have more characters 2 the lower they are
  SELECT p.section, p.kind, concat(p.name, chr(1), '=', p.text) AS pair
  FROM pairs p
  LEFT JOIN repeated r ON r.section = p.section AND r.kind = p.kind AND r.name = p.name
  WHERE r.name IS NULL
  UNION ALL -- few names are repeated, and numbering all pairs takes long
  SELECT p.section, p.kind, concat(p.name, chr(1), repeat(chr(2), CAST(row_number() OVER (
           PARTITION BY p.section, p.kind, p.name ORDER BY p.number DESC NULLS FIRST, p.text DESC, p.type DESC
         ) - 1 AS INT)), '=', p.text)
  FROM pairs p
  JOIN repeated r ON r.section = p.section AND r.kind = p.kind AND r.name = p.name
), texts AS (
  SELECT section, kind,
         replace(replace(array_join(array_sort(array_agg(pair)), ', '), chr(1), ''), chr(2), '') AS joined
  FROM texts_of_pairs GROUP BY section, kind
), wide AS (
  SELECT section,
         max(CASE WHEN kind = 'setting' THEN joined END) AS hyperparameters,
         max(CASE WHEN kind = 'measure' THEN joined END) AS measures,
         max(CASE WHEN kind = 'validation setting' THEN joined END) AS validation_hyperparameters,
         max(CASE WHEN kind = 'validation measure' THEN joined END) AS validation_measures
  FROM texts GROUP BY section
), best AS (
  SELECT section, rank, CASE WHEN direction = 'minimize' THEN least ELSE greatest END AS value
  FROM summaries WHERE name = :measure AND rank IS NOT NULL
), least_of_epochs AS (
  SELECT e.section, max(b.rank) AS rank, max(b.value) AS least
  FROM epochs e JOIN best b ON b.section = e.section GROUP BY e.section
), least_of_validations AS (
  SELECT v.section, max(b.value) AS least
  FROM validations v JOIN best b ON b.section = v.validation GROUP BY v.section
), models AS (
  SELECT DISTINCT f.section, f.data AS model
  FROM flows f JOIN data d ON d.data = f.data
  WHERE f.relation = 'produced' AND d.kind = 'model'
)
SELECT e.training, e.epoch, coalesce(own.model, whole.model) AS model, b.least,
       coalesce(c.hyperparameters, '') AS hyperparameters, coalesce(c.measures, '') AS measures,
       coalesce(c.validation_hyperparameters, '') AS validation_hyperparameters,
       coalesce(c.validation_measures, '') AS validation_measures, v.least AS validation_least
FROM epochs e
LEFT JOIN wide c ON c.section = e.section
LEFT JOIN least_of_epochs b ON b.section = e.section
LEFT JOIN least_of_validations v ON v.section = e.section
LEFT JOIN models own ON own.section = e.section
LEFT JOIN models whole ON whole.section = e.training
ORDER BY b.rank DESC NULLS LAST, training, epoch, model NULLS FIRST
