WITH results AS (
  SELECT t.section AS training, m.number, m.text, m.type, m.rank
  FROM sections t
  JOIN lineage l ON l.kind = 'evaluated' AND l.behind = t.section
  JOIN measures m ON m.section = l.ref
  WHERE t.model = :model AND t.section = t.stage AND m.name = :measure AND m.rank IS NOT NULL
), best AS (
  SELECT training, max(rank) AS best, max_by(number, rank) AS value__number, max_by(text, rank) AS value__text,
         max_by(type, rank) AS value__type
  FROM results GROUP BY training
), placed AS ( -- the value of the last place, which several may share
  SELECT min(best) AS last FROM (SELECT best, row_number() OVER (ORDER BY best DESC) AS place FROM best) ranked
  WHERE place <= :top
), pairs AS (
  SELECT DISTINCT b.training, concat(p.name, '=', p.text, ', ') AS pair
  FROM best b JOIN settings p ON p.section = b.training
  WHERE p.relation = 'used' AND p.kind = 'hyperparameter'
), texts AS (
  SELECT training, array_join(array_sort(array_agg(pair)), '') AS joined FROM pairs GROUP BY training
)
SELECT b.training, b.value__number, b.value__text, b.value__type,
       coalesce(substr(x.joined, 1, length(x.joined) - 2), '') AS hyperparameters
FROM best b
JOIN placed ON b.best >= placed.last
LEFT JOIN texts x ON x.training = b.training
ORDER BY b.best DESC, training
