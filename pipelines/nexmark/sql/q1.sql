CREATE TABLE q1 (
    auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), channel STRING, url STRING, date_time TIMESTAMP(3), extra STRING
) WITH ('connector' = 'delta', 'table' = 'q1');

INSERT INTO q1
SELECT auction, bidder, 0.908 * price AS price, channel, url, date_time, extra FROM bids;
