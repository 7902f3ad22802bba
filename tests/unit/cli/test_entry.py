"""What holds while a command's modules are imported."""

import gc

from pumice.cli.entry import importing


def test_the_collector_rests_while_modules_are_imported_and_leaves_them_alone_afterwards():
    before = gc.get_freeze_count()
    try:
        with importing():
            assert not gc.isenabled()
            imported = [[]]
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
        assert not any(each is imported for each in gc.get_objects())
    finally:
        gc.unfreeze()
