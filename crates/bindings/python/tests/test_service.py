"""Services, explanations, and errors."""

import datetime
import pickle

import pinnace
import pytest
from pinnace import Service


def test_keywords_and_texts_mean_the_same():
    for service, text in [
        (Service(), ""),
        (Service(loss=0.05, run=4096), "loss=5% run=4KiB"),
        (Service(loss="5%", run="4 KiB"), "loss=5% run=4KiB"),
        (Service(loss=0.05, critical=[slice(0, 1024), range(2048, 4096), (5000, 6000)]),
         "loss=5% critical=0..1KiB,2KiB..4KiB,5kB..6kB"),
        (Service(loss=0.05, critical=slice(1024)), "loss=5% critical=0..1KiB"),
        (Service(deadline=0.08, lifespan=datetime.timedelta(seconds=2)), "deadline=80ms lifespan=2s"),
        (Service(rate=200e6, burst=65_536, size=2_000_000), "size=2MB rate=200mbit burst=64KiB"),
        (Service(order=False, in_place=True, priority=3), "priority=3 order=no in-place=yes"),
        (Service(direction="duplex", path="cluster", prefer="throughput", multicast=4),
         "multicast=4 prefer=throughput direction=duplex path=cluster"),
        (Service("size=1MiB", deadline=1), "size=1MiB deadline=1s"),
        (Service(loss=0, size=None), ""),
    ]:  # fmt: skip
        assert str(service) == str(Service(text)) and service == Service(text)
        assert hash(service) == hash(Service(text)) and Service(**service_words(service)) == service
        assert Service.from_toml(service.to_toml()) == service
        assert pickle.loads(pickle.dumps(service)) == service
    assert Service("size=1MiB") != Service("size=2MiB") and Service() != ""
    assert Service("size=1MiB deadline=5s").replace(size="2MiB", deadline=None) == Service("size=2MiB")


def service_words(service):
    return {name.replace("-", "_"): value for name, value in service.words.items()}


def test_what_is_no_service_says_why():
    with pytest.raises(pinnace.ServiceError, match="did you mean `deadline=5s`") as caught:
        Service("dedline=5s")
    assert (caught.value.word, caught.value.near) == ("dedline=5s", "deadline=5s")
    assert isinstance(caught.value, ValueError)
    with pytest.raises(pinnace.ServiceError, match="needs a rate"):
        Service(burst=5)
    for words in {"loss": 5}, {"deadline": -1}, {"critical": [slice(0, 10, 2)], "loss": 0.1}:
        with pytest.raises(ValueError):
            Service(**words)
    for name, value, problem in (
        ("loss", 2, "no share"),
        ("loss", float("nan"), "no share"),
        ("deadline", -1, "no time"),
        ("critical", [slice(-5, -1)], "before the first byte"),
        ("critical", [slice(5, None)], "has no end"),
        ("critical", [slice(0, 10, 2)], "has a step"),
    ):
        with pytest.raises(pinnace.ServiceError, match=f"`{name}=.*: .*{problem}") as caught:
            Service(**{name: value})
        assert caught.value.word.startswith(f"{name}=")
    with pytest.raises(pinnace.ServiceError):
        Service(frobnication=5)
    with pytest.raises(TypeError):
        Service(size=[5])
    with pytest.raises(pinnace.ServiceError):
        pinnace.connect("127.0.0.1:9", "loss=")
    with pytest.raises(TypeError):
        pinnace.connect(9)
    for congestion in "reno", "bbr:51%":
        with pytest.raises(ValueError, match="a congestion controller is one of"):
            pinnace.listen("127.0.0.1:0", congestion=congestion)
    pinnace.listen("127.0.0.1:0", congestion="bbr:30%").close()
    for backlog in -1, 1.5, "many":
        with pytest.raises(ValueError, match="backlog is how many"):
            pinnace.listen("127.0.0.1:0", backlog=backlog)
    with pytest.raises(TypeError, match="is no setting"):
        pinnace.listen("127.0.0.1:0", frobnication=5)


def test_what_is_explained_is_chosen():
    listener = pinnace.listen("127.0.0.1:0")
    for text in "", "loss=5% run=4KiB", "size=2MB direction=duplex", "loss=any", "size=1MiB in-place=yes":
        explanation = pinnace.explain(text, "127.0.0.1", exclude=["shared-memory"])
        connection = pinnace.connect(listener.address, text, exclude="shared-memory")
        assert explanation.choice == connection.method == explanation.offers[0].method, text
        assert len(explanation.offers) == 6 and str(explanation.service) == text
        assert explanation.offers[0].fits and explanation.offers[0].cost.total > 0
    none = pinnace.explain("deadline=1ns", "internet")
    assert none.choice is None and all(offer.why for offer in none.offers if not offer.fits)
    assert "choice: none" in str(none)
    assert pinnace.explain("size=1MiB", "cluster", method="xtp").choice == "xtp"
    with pytest.raises(ValueError, match="is no method"):
        pinnace.explain(method="tcp")


def test_errors_have_a_family():
    for name in pinnace.__all__:
        thing = getattr(pinnace, name)
        if isinstance(thing, type) and issubclass(thing, BaseException):
            assert issubclass(thing, pinnace.Error) and thing.__doc__
    for name in ["ConnectionError", "OSError", "TimeoutError"]:
        assert issubclass(getattr(pinnace, name), pinnace.Error)
        assert name not in pinnace.__all__, "the built-in one is hidden"
    with pytest.raises(pinnace.NoAnswerError) as caught:
        pinnace.connect("127.0.0.1:9")
    assert isinstance(caught.value, ConnectionError)
    listener = pinnace.listen("127.0.0.1:0", "largest=4KiB")
    with pytest.raises(OSError) as caught:
        pinnace.listen(("127.0.0.1", listener.port))
    assert isinstance(caught.value, pinnace.Error) and caught.value.errno
    with pytest.raises(pinnace.UnmetError, match="deadline"):
        pinnace.connect(listener.address, "deadline=1ns")
    with pytest.raises(pinnace.RefusedError):
        pinnace.connect(listener.address, "size=1MiB")
    listener.close()
    with pytest.raises(pinnace.ClosedError):
        listener.accept()
    assert list(listener) == []
