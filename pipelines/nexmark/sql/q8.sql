CREATE TABLE q8 (
    id BIGINT, name STRING, start_time TIMESTAMP(3)
) WITH ('connector' = 'delta', 'table' = 'q8');

INSERT INTO q8
SELECT p.id, p.name, p.started
FROM (
    SELECT DISTINCT id, name, window_start AS started, window_end AS ended
    FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(date_time), INTERVAL '10' SECOND))
) AS p
JOIN (
    SELECT seller, window_start AS started, window_end AS ended
    FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(date_time), INTERVAL '10' SECOND))
    GROUP BY seller, window_start, window_end
) AS a ON p.id = a.seller AND p.started = a.started AND p.ended = a.ended;
