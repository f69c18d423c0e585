"""What the tests share."""

import faulthandler
import os
import pathlib
import signal

import pinnace
import pytest

METHODS = ["zcrp", "vrp", "xtp", "qmp", "a1"]
LONG = 20.0
ROOT = pathlib.Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def watchdog():
    """A test that hangs says where, and fails. What a test starts may take 200 s, and says so itself."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def freeze(process):
    """Stops a child. A signal stops its threads one after another: what is sent meanwhile may still be answered."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


class Pair:
    """Two connected ends."""

    def __init__(self, service="direction=duplex largest=8MiB", **settings):
        fault = {"fault": settings["fault"]} if "fault" in settings else {}
        self.listener = pinnace.listen("127.0.0.1:0", **fault)
        self.client = pinnace.connect(self.listener.address, service, **settings)
        self.server = self.listener.accept(LONG)


@pytest.fixture(params=METHODS)
def pair(request):
    return Pair(method=request.param)
