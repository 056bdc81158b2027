-- The three kinds of events, and the side input of q13; NEXMARK is the generator's folder.
CREATE TABLE persons (
    id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING,
    date_time TIMESTAMP(3), extra STRING,
    WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${NEXMARK}/persons', 'format' = 'json', 'max-files-per-batch' = '1');

CREATE TABLE auctions (
    id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP(3),
    expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING,
    WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${NEXMARK}/auctions', 'format' = 'json', 'max-files-per-batch' = '1');

CREATE TABLE bids (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3), extra STRING,
    WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${NEXMARK}/bids', 'format' = 'json', 'max-files-per-batch' = '1');

CREATE TABLE side_input (key BIGINT, `value` STRING)
    WITH ('connector' = 'filesystem', 'path' = '${NEXMARK}/side_input.csv', 'format' = 'csv',
          'csv.header' = 'true');
