CREATE TABLE q18 (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3), extra STRING
) WITH ('connector' = 'delta', 'table' = 'q18');

INSERT INTO q18
SELECT auction, bidder, price, channel, url, date_time, extra
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price DESC) AS latest FROM bids)
WHERE latest = 1;
