"""A shop's orders and payments through Kafka: the totals ordered and paid by each customer, minute by minute.

`make kafka-demo` runs it with a broker of its own. The brokers are those that RS_KAFKA names, else localhost:9092.
"""

from __future__ import annotations

import os

from rs_assets import KafkaCluster, Pipeline, StreamBuilder, Time, TumblingWindow

ORDERS, PAYMENTS, TOTALS = "orders", "payments", "order-totals"
ORDER = "order_id bigint, customer string, amount decimal(12, 2), ts timestamp"
PAYMENT = "payment_id bigint, order_id bigint, customer string, amount decimal(12, 2), ts timestamp"
NOTHING = "CAST(0 AS decimal(12, 2))"


def default_servers() -> str:
    """The brokers to use."""
    return os.environ.get("RS_KAFKA") or "localhost:9092"


def order_totals(servers: str | KafkaCluster, *, job: str = "order_totals") -> Pipeline:
    """The pipeline over the topics of one cluster."""
    shop = StreamBuilder.data_stream("shop", job)
    group = f"shop.{job}"
    orders = shop.from_kafka(servers, ORDERS, group=group, schema=ORDER, bad_records="dead_letter", name="orders").map(
        "customer", "ts", "amount AS ordered", f"{NOTHING} AS paid", name="ordered"
    )
    payments = shop.from_kafka(
        servers, PAYMENTS, group=group, schema=PAYMENT, bad_records="dead_letter", name="payments"
    ).map("customer", "ts", f"{NOTHING} AS ordered", "amount AS paid", name="paid")
    totals = (
        orders.union(payments, name="both")
        .window(TumblingWindow.of(Time.minutes(1), "ts"), name="customer_minutes")
        .group_by("customer")
        .sum("ordered")
        .sum("paid")
        .water_mark(Time.seconds(30))
        .to_data_stream()
        .with_fields(owed="ordered - paid", name="balance")
    )
    return (
        totals.to_delta("order_totals", name="order_totals_table")
        .to_kafka(servers, TOTALS, key="customer", delivery="exactly_once", name="order_totals_topic")
        .build(description="What each customer ordered and paid, minute by minute, from two topics.")
    )


pipeline = order_totals(default_servers())
