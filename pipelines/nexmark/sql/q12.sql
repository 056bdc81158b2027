CREATE TABLE q12 (
    bidder BIGINT, bid_count BIGINT, start_time TIMESTAMP(3), end_time TIMESTAMP(3)
) WITH ('connector' = 'delta', 'table' = 'q12');

CREATE VIEW arrivals AS SELECT bidder, PROCTIME() AS arrived FROM bids;

INSERT INTO q12
SELECT bidder, COUNT(*), window_start, window_end
FROM TABLE(TUMBLE(TABLE arrivals, DESCRIPTOR(arrived), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
