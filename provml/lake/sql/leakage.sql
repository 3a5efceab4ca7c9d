WITH contents AS (
  SELECT DISTINCT data, content FROM data WHERE content IS NOT NULL
), alternates AS ( -- what stands for the same content: itself, and what a run or a file made of it
  SELECT DISTINCT data AS same, data FROM data
  UNION SELECT content, data FROM contents
  UNION SELECT alternate, data FROM data WHERE alternate IS NOT NULL
), specializations AS (
  SELECT DISTINCT data AS same, data FROM data UNION SELECT content, data FROM contents
), roots AS ( -- the content, not what a run made of it
  SELECT DISTINCT d.data, coalesce(c.content, d.data) AS dataset
  FROM data d LEFT JOIN contents c ON c.data = d.data
), names AS (
  SELECT DISTINCT data, name FROM data WHERE name IS NOT NULL
), makers AS ( -- the section that made data, and its stage
  SELECT DISTINCT data, section AS maker FROM flows WHERE relation = 'produced'
  UNION SELECT data, stage FROM flows WHERE relation = 'produced'
), before AS ( -- a step, and each step that it was built on
  SELECT DISTINCT section AS step, section AS earlier FROM sections
  UNION SELECT ref, behind FROM lineage WHERE kind = 'built_on'
), trainings AS (
  SELECT section AS training FROM sections
  WHERE kind = 'training' AND section = stage AND model IS NOT NULL AND (:model IS NULL OR model = :model)
), tests AS (
  SELECT DISTINCT f.section AS evaluation, f.data AS tested FROM flows f WHERE f.relation = 'tested'
), first_tests AS ( -- of many evaluations on the same data, the first
  SELECT content, min(evaluation) AS evaluation
  FROM (SELECT evaluation, tested AS content FROM tests
        UNION SELECT t.evaluation, c.content FROM tests t JOIN contents c ON c.data = t.tested) tested_contents
  GROUP BY content
), reached AS ( -- trainings that may have to do with the data of an evaluation
  SELECT ft.evaluation, l.ref AS training
  FROM first_tests ft
  JOIN specializations s ON s.same = ft.content
  JOIN flows f ON f.data = s.data AND f.relation = 'used'
  JOIN lineage l ON l.kind = 'built_on' AND l.behind = f.section
  WHERE :any_evaluation
  UNION
  SELECT ft.evaluation, f.section
  FROM first_tests ft
  JOIN lineage o ON o.kind = 'origin' AND o.ref = ft.content
  JOIN flows f ON f.data = o.behind AND f.relation = 'learned'
  WHERE :any_evaluation
), evaluated AS (
  SELECT DISTINCT ref AS evaluation, behind AS training FROM lineage WHERE kind = 'evaluated'
), candidates AS (
  SELECT e.training, e.evaluation, TRUE AS evaluates_it FROM evaluated e JOIN trainings t ON t.training = e.training
  UNION ALL
  SELECT r.training, r.evaluation, FALSE
  FROM reached r
  JOIN trainings t ON t.training = r.training
  LEFT JOIN evaluated e ON e.evaluation = r.evaluation AND e.training = r.training
  WHERE e.training IS NULL
), tested AS (
  SELECT c.training, c.evaluation, c.evaluates_it, x.tested, r.dataset
  FROM candidates c
  JOIN tests x ON x.evaluation = c.evaluation
  JOIN roots r ON r.data = x.tested
), reserved AS (
  SELECT DISTINCT section AS training, data FROM flows WHERE role IN ('validation', 'test')
), learned AS (
  SELECT section AS training, data FROM flows WHERE relation = 'learned'
  UNION SELECT stage, data FROM flows WHERE role = 'test'
), made_of AS ( -- data of a training that steps made, with the first and the last of them
  SELECT DISTINCT t.training, d.data, b.earlier AS first_maker, l.behind AS last_maker
  FROM trainings t
  JOIN lineage l ON l.kind = 'built_on' AND l.direct AND l.ref = t.training
  JOIN flows d ON d.section = t.training AND d.relation = 'used'
  JOIN alternates a ON a.same = d.data
  JOIN makers m ON m.data = a.data AND m.maker = l.behind
  JOIN before b ON b.step = l.behind
  LEFT JOIN reserved r ON r.training = t.training AND r.data = d.data
  WHERE r.data IS NULL
), used_first AS ( -- what the first step used, unless it is a stage of learning that did not learn from it
  SELECT DISTINCT f.section AS step, r.dataset
  FROM flows f
  JOIN sections s ON s.section = f.section
  JOIN roots r ON r.data = f.data
  LEFT JOIN flows g ON g.section = f.section AND g.data = f.data AND g.relation = 'learned'
  WHERE f.relation = 'used' AND (g.data IS NOT NULL OR s.model IS NULL)
), leaks AS (
  SELECT t.*, l.data, 'the same content' AS path
  FROM tested t
  JOIN learned l ON l.training = t.training
  JOIN roots r ON r.data = l.data AND r.dataset = t.dataset
  UNION ALL
  SELECT t.*, m.data, concat('made from it by ', first_step.name, CASE WHEN m.first_maker = m.last_maker THEN '' ELSE
         concat(' and ', last_step.name) END)
  FROM tested t
  JOIN made_of m ON m.training = t.training
  JOIN used_first u ON u.step = m.first_maker AND u.dataset = t.dataset
  JOIN sections first_step ON first_step.section = m.first_maker
  JOIN sections last_step ON last_step.section = m.last_maker
  UNION ALL
  SELECT t.*, d.data, concat('evaluated on what ', maker.name, ' made from it')
  FROM tested t
  JOIN specializations s ON s.same = t.tested
  JOIN makers m ON m.data = s.data
  JOIN sections maker ON maker.section = m.maker
  JOIN before b ON b.step = m.maker
  JOIN sections step ON step.section = b.earlier AND step.model IS NULL
  JOIN flows u ON u.section = step.section AND u.relation = 'used'
  JOIN flows d ON d.section = t.training AND d.relation = 'learned'
  LEFT JOIN contents origin ON origin.data = u.data
  LEFT JOIN contents known ON known.data = d.data
  WHERE d.data = u.data OR d.data = origin.content OR known.content = u.data OR known.content = origin.content
)
SELECT k.training, k.evaluation, k.evaluates_it, k.dataset, min(called.name) AS name, min(label.name) AS learned, k.path
FROM leaks k
JOIN names called ON called.data = k.tested
JOIN names label ON label.data = k.data
WHERE k.path IS NOT NULL
GROUP BY k.training, k.evaluation, k.evaluates_it, k.dataset, k.path
ORDER BY k.evaluates_it DESC, k.training, k.evaluation, name, k.path
