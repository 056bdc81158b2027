CREATE FUNCTION count_char AS 'com.github.nexmark.flink.udf.CountChar';

CREATE TABLE q14 (
    auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), bid_time_type STRING, date_time TIMESTAMP(3), extra STRING,
    c_counts BIGINT
) WITH ('connector' = 'delta', 'table' = 'q14');

INSERT INTO q14
SELECT auction, bidder, 0.908 * price,
    CASE WHEN HOUR(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
         WHEN HOUR(date_time) <= 6 OR HOUR(date_time) >= 20 THEN 'nightTime'
         ELSE 'otherTime' END,
    date_time, extra, count_char(extra, 'c')
FROM bids
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
