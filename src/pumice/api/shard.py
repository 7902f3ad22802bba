"""NodeShard (shard.volcano.sh/v1alpha1): the nodes that one of several schedulers may use."""

from pumice.api.meta import NO_METADATA, ObjectMeta, Struct


class NodeShardSpec(Struct):
    nodes_desired: tuple[str, ...] = ()


class NodeShardStatus(Struct):
    last_update_time: str | None = None
    nodes_in_use: tuple[str, ...] = ()
    nodes_to_remove: tuple[str, ...] = ()
    nodes_to_add: tuple[str, ...] = ()


class NodeShard(Struct):
    """Named like its scheduler."""

    metadata: ObjectMeta = NO_METADATA
    spec: NodeShardSpec = NodeShardSpec()
    status: NodeShardStatus = NodeShardStatus()
