package org.apache.rocketmq.store.rsassets

import org.apache.rocketmq.store.DefaultMessageStore
import org.apache.rocketmq.store.ha.DefaultHAService

/** The replication of a broker without replicas: RocketMQ's own would listen on all interfaces. */
class NoReplicas extends DefaultHAService {
  override def init(store: DefaultMessageStore): Unit = defaultMessageStore = store
  override def start(): Unit = ()
  override def shutdown(): Unit = ()
}
