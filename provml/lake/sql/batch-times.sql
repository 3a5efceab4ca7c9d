SELECT training, epoch, batches, mean, least, most
FROM (
  SELECT DISTINCT s.stage AS training, s.idx AS epoch, s.batches, s.mean_seconds AS mean, s.least_seconds AS least,
                  s.most_seconds AS most, t.started
  FROM flows f
  JOIN sections t ON t.section = f.section
  JOIN sections s ON s.stage = f.section
  WHERE f.relation = 'learned' AND s.trains AND s.batches IS NOT NULL AND s.mean_seconds IS NOT NULL
    AND (f.data = :dataset OR f.data IN (SELECT data FROM data WHERE content = :dataset))
) rows_by_epoch
ORDER BY started NULLS FIRST, epoch, training, mean
