"""The HyperNode controller: how many nodes a HyperNode holds, and HyperNodes made from the labels of nodes.

    configuration   what the operator's ConfigMap asks for; pure
    discovery       labels of nodes -> HyperNodes; pure
    counting        members -> nodes; pure
    plan            all HyperNodes at once, because one node's label may change several of them; pure
    loop            watches nodes, HyperNodes and the ConfigMap

Hand-made HyperNodes are counted and otherwise left alone.
"""
