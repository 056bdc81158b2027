import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.Stores;

/**
 * The benchmarks' queries in Kafka Streams. Arguments are name=value: mode (filter, windows or table), servers, input,
 * output, rows, application, state (a folder), guarantee (Kafka's processing.guarantee), emit (final or updates), least
 * (what the filter keeps), window and grace (seconds), cache (bytes; 0: each record is told), compacted (if given,
 * `rows` are the offsets of a topic that lacks some of its records). It ends when it has consumed `rows` records and
 * committed, and prints a line of JSON: seconds from the first record to the commit, and to the last record.
 */
public final class KafkaPeer {
    private static final int THREADS = 2;
    private static final long PATIENCE_S = 600;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ObjectReader READER = JSON.readerFor(View.class);
    private static final ObjectWriter WRITER = JSON.writerFor(View.class);

    public static final class View {
        public long id;
        public String user;
        public String page;
        public String ts;
        public long ms;
        public String note;
    }

    private final Map<String, String> given;
    private final AtomicLong consumed = new AtomicLong();
    private final CountDownLatch done = new CountDownLatch(1);
    private volatile long began;
    private volatile Throwable failure;
    private final long rows;

    private KafkaPeer(Map<String, String> given) {
        this.given = given;
        this.rows = Long.parseLong(given.get("rows"));
    }

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> given = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            given.put(parts[0], parts[1]);
        }
        System.exit(new KafkaPeer(given).run());
    }

    private int run() throws InterruptedException {
        KafkaStreams streams = new KafkaStreams(topology().build(), settings());
        streams.setUncaughtExceptionHandler(error -> {
            failure = error;
            done.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        boolean whole = done.await(PATIENCE_S, TimeUnit.SECONDS);
        long last = System.nanoTime();
        // Closing at once would leave some of the last output unwritten.
        whole = whole && failure == null && awaitCommit(last);
        long committed = System.nanoTime();
        streams.close(Duration.ofSeconds(60));
        if (failure != null || !whole) {
            System.err.println(failure != null ? failure : "not committed; consumed " + consumed.get() + " records");
            return 1;
        }
        System.out.printf(
                "{\"consumed\": %d, \"seconds\": %.3f, \"to_last_record_s\": %.3f}%n",
                consumed.get(), (committed - began) / 1e9, (last - began) / 1e9);
        return 0;
    }

    /** Waits until the offsets of all records are committed: before that Kafka Streams writes their output. */
    private boolean awaitCommit(long since) throws InterruptedException {
        Map<String, Object> servers = Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, given.get("servers"));
        try (Admin admin = Admin.create(servers)) {
            while (failure == null && System.nanoTime() - since < TimeUnit.SECONDS.toNanos(PATIENCE_S)) {
                long sum = 0;
                for (OffsetAndMetadata each : admin.listConsumerGroupOffsets(given.get("application"))
                        .partitionsToOffsetAndMetadata().get().values()) {
                    sum += each == null ? 0 : each.offset();
                }
                if (sum >= rows) {
                    return true;
                }
                Thread.sleep(10);
            }
        } catch (ExecutionException error) {
            failure = error;
        }
        return false;
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, given.get("application"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given.get("servers"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, given.get("state"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, given.get("guarantee"));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, THREADS);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        if (given.containsKey("commit_ms")) {
            settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, Long.parseLong(given.get("commit_ms")));
        }
        if (given.containsKey("cache")) {
            settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, Long.parseLong(given.get("cache")));
        }
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        return settings;
    }

    private StreamsBuilder topology() {
        StreamsBuilder builder = new StreamsBuilder();
        boolean table = given.get("mode").equals("table");
        Consumed<String, View> how = Consumed.with(Serdes.String(), views()).withTimestampExtractor((record, before) -> {
            // A table passes on what changed between two commits, so its records are counted as they are read.
            if (table) {
                counted(true);
            }
            // A tombstone has the time of its record alone.
            View view = (View) record.value();
            return view == null ? record.timestamp() : Instant.parse(view.ts).toEpochMilli();
        });
        if (table) {
            builder.table(given.get("input"), how, Materialized.<String, View>as(Stores.persistentKeyValueStore("table")))
                    .toStream().to(given.get("output"), Produced.with(Serdes.String(), views()));
            return builder;
        }
        KStream<String, View> views = builder.stream(given.get("input"), how);
        if (given.get("mode").equals("windows")) {
            windows(views);
        } else {
            long least = Long.parseLong(given.get("least"));
            views.filter((key, view) -> counted(view.ms >= least))
                    .to(given.get("output"), Produced.with(Serdes.String(), views()));
        }
        return builder;
    }

    private void windows(KStream<String, View> views) {
        Duration size = Duration.ofSeconds(Long.parseLong(given.get("window")));
        Duration grace = Duration.ofSeconds(Long.parseLong(given.get("grace")));
        KTable<Windowed<String>, Long> counts = views.groupByKey(Grouped.with(Serdes.String(), views()))
                .windowedBy(TimeWindows.ofSizeAndGrace(size, grace))
                .count();
        if (given.get("emit").equals("final")) {
            counts = counts.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()));
        }
        // Behind the windows: a record counts as consumed when its window's state has it.
        views.foreach((key, view) -> counted(true));
        counts.toStream((window, count) -> window.key() + "@" + window.window().start())
                .to(given.get("output"), Produced.with(Serdes.String(), Serdes.Long()));
    }

    private boolean counted(boolean kept) {
        if (began == 0) {
            began = System.nanoTime();
        }
        // Of a compacted topic only the commit says that all was read.
        if (consumed.incrementAndGet() == rows || given.containsKey("compacted")) {
            done.countDown();
        }
        return kept;
    }

    private static Serde<View> views() {
        return Serdes.serdeFrom(
                (topic, view) -> {
                    try {
                        return view == null ? null : WRITER.writeValueAsBytes(view);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                },
                (topic, bytes) -> {
                    try {
                        return bytes == null ? null : READER.readValue(bytes);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                });
    }
}
