CREATE TABLE q9 (
    id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP(3),
    expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING,
    bid_auction BIGINT, bid_bidder BIGINT, bid_price BIGINT, bid_date_time TIMESTAMP(3), bid_extra STRING
) WITH ('connector' = 'delta', 'table' = 'q9');

CREATE VIEW in_time AS
SELECT a.*, b.auction AS bid_auction, b.bidder AS bid_bidder, b.price AS bid_price, b.date_time AS bid_date_time,
    b.extra AS bid_extra
FROM auctions AS a, bids AS b
WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires;

INSERT INTO q9
SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra, bid_auction,
    bid_bidder, bid_price, bid_date_time, bid_extra
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY bid_price DESC, bid_date_time ASC) AS place FROM in_time
) AS best
WHERE place = 1;
