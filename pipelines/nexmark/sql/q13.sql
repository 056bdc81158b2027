CREATE TABLE q13 (
    auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP(3), `value` STRING
) WITH ('connector' = 'delta', 'table' = 'q13');

INSERT INTO q13
SELECT b.auction, b.bidder, b.price, b.date_time, s.`value`
FROM (SELECT *, PROCTIME() AS arrived FROM bids) AS b
JOIN side_input FOR SYSTEM_TIME AS OF b.arrived AS s ON MOD(b.auction, 10000) = s.key;
