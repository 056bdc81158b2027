CREATE TABLE q0 (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3), extra STRING
) WITH ('connector' = 'delta', 'table' = 'q0');

INSERT INTO q0 SELECT * FROM bids;
