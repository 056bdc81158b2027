CREATE TABLE q11 (
    bidder BIGINT, bid_count BIGINT, start_time TIMESTAMP(3), end_time TIMESTAMP(3)
) WITH ('connector' = 'delta', 'table' = 'q11');

INSERT INTO q11
SELECT bidder, COUNT(*), SESSION_START(date_time, INTERVAL '10' SECOND), SESSION_END(date_time, INTERVAL '10' SECOND)
FROM bids
GROUP BY bidder, SESSION(date_time, INTERVAL '10' SECOND);
