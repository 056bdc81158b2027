CREATE TABLE q20 (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3), extra STRING,
    auction_id BIGINT, auction_item_name STRING, auction_description STRING, auction_initial_bid BIGINT,
    auction_reserve BIGINT, auction_date_time TIMESTAMP(3), auction_expires TIMESTAMP(3), auction_seller BIGINT,
    auction_category BIGINT, auction_extra STRING
) WITH ('connector' = 'delta', 'table' = 'q20');

INSERT INTO q20
SELECT b.*, a.* FROM bids AS b JOIN auctions AS a ON b.auction = a.id WHERE a.category = 10;
