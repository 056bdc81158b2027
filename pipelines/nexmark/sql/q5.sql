CREATE TABLE q5 (
    num BIGINT, auction BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3)
) WITH ('connector' = 'delta', 'table' = 'q5');

CREATE VIEW counts AS
SELECT auction, COUNT(*) AS num, window_start, window_end
FROM TABLE(HOP(TABLE bids, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;

INSERT INTO q5
SELECT c.num, c.auction, c.window_start, c.window_end
FROM counts AS c
JOIN (SELECT window_start, window_end, MAX(num) AS most FROM counts GROUP BY window_start, window_end) AS best
    ON c.window_start = best.window_start AND c.window_end = best.window_end AND c.num = best.most;
