CREATE TABLE q7 (
    auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP(3), extra STRING, end_time TIMESTAMP(3)
) WITH ('connector' = 'delta', 'table' = 'q7');

INSERT INTO q7
SELECT b.auction, b.bidder, b.price, b.date_time, b.extra, best.end_time
FROM bids AS b
JOIN (
    SELECT MAX(price) AS highest, TUMBLE_END(date_time, INTERVAL '10' SECOND) AS end_time
    FROM bids
    GROUP BY TUMBLE(date_time, INTERVAL '10' SECOND)
) AS best ON b.price = best.highest
WHERE b.date_time BETWEEN best.end_time - INTERVAL '10' SECOND AND best.end_time;
