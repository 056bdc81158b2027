CREATE TABLE q2 (
    auction BIGINT, price BIGINT
) WITH ('connector' = 'delta', 'table' = 'q2');

INSERT INTO q2 SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0;
