CREATE TABLE q4 (
    category BIGINT, final BIGINT
) WITH ('connector' = 'delta', 'table' = 'q4');

-- An auction has one time, so a window of a second has it alone, with all its bids.
CREATE VIEW finals AS
SELECT a.id, a.category, MAX(b.price) AS final
FROM auctions AS a
JOIN bids AS b
    ON a.id = b.auction
    AND b.date_time BETWEEN a.date_time AND a.date_time + INTERVAL '${LONGEST}' SECOND
    AND b.date_time <= a.expires
GROUP BY a.id, a.category, TUMBLE(a.date_time, INTERVAL '1' SECOND);

INSERT INTO q4 SELECT category, AVG(final) FROM finals GROUP BY category;
