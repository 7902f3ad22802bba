from tests.bodies.client import ClientBodies


class TestOnTheEmbeddedServer(ClientBodies):
    pass
