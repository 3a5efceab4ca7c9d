WITH bounds AS (
  SELECT section, name, number FROM settings WHERE relation = 'used' AND name IN (:first, :last)
), steps AS (
  SELECT DISTINCT low.section
  FROM bounds low JOIN bounds high ON high.section = low.section
  WHERE low.name = :first AND high.name = :last AND low.number >= :from AND high.number <= :to
), trainings AS (
  SELECT DISTINCT coalesce(c.content, f.data) AS dataset, f.section AS training, t.started
  FROM steps
  JOIN lineage l ON l.kind = 'made_by' AND l.behind = steps.section
  JOIN flows f ON f.data = l.ref AND f.relation = 'learned'
  JOIN sections t ON t.section = f.section
  LEFT JOIN data c ON c.data = f.data
)
SELECT r.dataset, r.training, s.idx AS epoch, s.mean_seconds AS mean, m.name AS measure,
       m.number AS value__number, m.text AS value__text, m.type AS value__type
FROM trainings r
JOIN sections s ON s.stage = r.training
JOIN measures m ON m.section = s.section
WHERE s.trains
ORDER BY r.started NULLS FIRST, epoch, measure, value__number NULLS LAST, value__text, training, dataset
