CREATE TABLE q19 (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3), extra STRING, rank_number BIGINT
) WITH ('connector' = 'delta', 'table' = 'q19');

INSERT INTO q19
SELECT * FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, date_time DESC) AS rank_number FROM bids
)
WHERE rank_number <= 10;
