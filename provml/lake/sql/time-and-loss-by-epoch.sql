-- the latest run with a training of the model, unless a run is given
WITH chosen AS (
  SELECT r.run
  FROM runs r
  WHERE (:run IS NULL OR r.iri = :run)
    AND r.run IN (SELECT run FROM sections WHERE kind = 'training' AND section = stage AND model = :model)
  ORDER BY r.started DESC NULLS LAST, r.iri
  LIMIT 1
)
SELECT s.stage AS training, s.idx AS epoch, s.seconds,
       m.number AS value__number, m.text AS value__text, m.type AS value__type
FROM sections s
JOIN sections t ON t.section = s.stage
LEFT JOIN measures m ON m.section = s.section AND m.name = :measure
WHERE s.trains AND s.idx <= :first AND s.run IN (SELECT run FROM chosen)
ORDER BY t.started NULLS FIRST, epoch, m.type IS NOT NULL, value__number NULLS LAST, value__text, training
