"""The base classes of nodes, which lie in `rs_assets/common/node.py` and `rs_assets/connectors/nodes.py`."""

from rs_assets.connectors.nodes import Sink

__all__ = ["Sink"]
