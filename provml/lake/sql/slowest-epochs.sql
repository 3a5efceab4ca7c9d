WITH parts AS (
  SELECT t.section AS training, s.section, s.idx AS epoch, s.seconds
  FROM sections t JOIN sections s ON s.stage = t.section
  WHERE t.kind = 'training' AND t.section = t.stage AND t.model IS NOT NULL AND (:model IS NULL OR t.model = :model)
    AND s.section <> s.stage AND s.seconds IS NOT NULL
), means AS (
  SELECT training, avg(seconds) AS mean FROM parts GROUP BY training
), ranked AS (
  SELECT *, row_number() OVER (ORDER BY seconds DESC, training, epoch, section) AS place FROM parts
)
SELECT r.training, r.epoch, r.seconds, CASE WHEN m.mean > 0 THEN r.seconds / m.mean ELSE 1 END AS times
FROM ranked r JOIN means m ON m.training = r.training
WHERE r.place <= :top
ORDER BY r.place
