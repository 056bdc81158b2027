CREATE TABLE q3 (
    name STRING, city STRING, state STRING, id BIGINT
) WITH ('connector' = 'delta', 'table' = 'q3');

INSERT INTO q3
SELECT seller.name, seller.city, seller.state, sale.id
FROM auctions AS sale JOIN persons AS seller ON sale.seller = seller.id
WHERE sale.category = 10 AND seller.state IN ('OR', 'ID', 'CA');
