CREATE TABLE q21 (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, channel_id STRING
) WITH ('connector' = 'delta', 'table' = 'q21');

CREATE VIEW numbered AS
SELECT auction, bidder, price, channel,
    CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
        ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
FROM bids;

INSERT INTO q21 SELECT * FROM numbered WHERE channel_id IS NOT NULL;
