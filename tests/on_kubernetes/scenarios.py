"""What is asked of both servers: each scenario is a list of requests, sent one after the other."""

from __future__ import annotations

from typing import Any

from tests.on_kubernetes.both_apis import APPLY, JSON, MERGE, TABLE, Step

Obj = dict[str, Any]

EVENTING, MESSAGING = "eventing.knative.dev/v1", "messaging.knative.dev/v1"
FLOWS, SOURCES = "flows.knative.dev/v1", "sources.knative.dev/v1"


def at(api_version: str, kind: str, name: str = "", query: str = "") -> str:
    """Where objects of the kind are."""
    path = f"/apis/{api_version}/namespaces/default/{kind.lower()}s"
    return path + (f"/{name}" if name else "") + (f"?{query}" if query else "")


def obj(api_version: str, kind: str, name: str, spec: Any = None, **metadata: Any) -> Obj:
    """An object as somebody would write it."""
    made: Obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}
    return made if spec is None else {**made, "spec": spec}


def post(body: Obj, query: str = "") -> Step:
    """Creates the object."""
    return Step("POST", at(body["apiVersion"], body["kind"], query=query), body)


def patch(body: Obj, change: Any, media: str = MERGE, query: str = "") -> Step:
    """Changes the object."""
    return Step("PATCH", at(body["apiVersion"], body["kind"], body["metadata"]["name"], query), change, media)


def get(body: Obj, query: str = "") -> Step:
    """Reads the object."""
    return Step("GET", at(body["apiVersion"], body["kind"], body["metadata"]["name"], query))


def delete(body: Obj) -> Step:
    """Deletes the object."""
    return Step("DELETE", at(body["apiVersion"], body["kind"], body["metadata"]["name"]))


SINK = {"uri": "http://sink.example/"}
DELIVERY = {"retry": 3, "backoffPolicy": "linear", "backoffDelay": "PT1S", "timeout": "PT10S"}


def broker(name: str, spec: Any = None, **metadata: Any) -> Obj:
    """A Broker."""
    return obj(EVENTING, "Broker", name, spec, **metadata)


def trigger(name: str, **spec: Any) -> Obj:
    """A Trigger."""
    return obj(EVENTING, "Trigger", name, {"broker": "b", "subscriber": SINK, **spec})


def subscription(name: str, **spec: Any) -> Obj:
    """A Subscription."""
    channel = {"apiVersion": MESSAGING, "kind": "Channel", "name": "c"}
    return obj(MESSAGING, "Subscription", name, {"channel": channel, "subscriber": SINK, **spec})


def life(made: Obj, change: Obj) -> list[Step]:
    """From creation to deletion."""
    return [
        post(made),
        post(made),
        get(made),
        patch(made, change),
        patch(made, change),
        patch(made, [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], JSON),
        patch(made, [{"op": "test", "path": "/spec/nothing", "value": 1}], JSON),
        delete(made),
        get(made),
        delete(made),
    ]


def refused(*bodies: Obj) -> list[Step]:
    """Objects that nobody should take."""
    return [post(one) for one in bodies]


CLASS = "eventing.knative.dev/broker.class"
STEP = {"uri": "http://step.example/"}
LABELS = {"app": "d"}
WITH_A_SLASH = obj(
    "apps/v1",
    "Deployment",
    "with-a-slash",
    {
        "replicas": 0,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {
                "containers": [{"name": "c", "image": "example/image"}],
                "volumes": [{"name": "v", "secret": {"secretName": "../x"}}],
            },
        },
    },
)
POD = {"spec": {"containers": [{"name": "c", "image": "example/image"}]}}

SCENARIOS: dict[str, list[Step]] = {
    "broker": life(broker("b"), {"spec": {"delivery": DELIVERY}}),
    "broker with everything": life(
        broker(
            "b2", {"delivery": {**DELIVERY, "deadLetterSink": SINK}}, annotations={CLASS: "Penstock"}, labels={"x": "y"}
        ),
        {"spec": {"delivery": {"retry": 7}}},
    ),
    "broker that may not change": [
        post(broker("b3")),
        patch(broker("b3"), {"spec": {"config": {"name": "other"}}}),
        patch(broker("b3"), {"metadata": {"annotations": {CLASS: "Other"}}}),
        delete(broker("b3")),
    ],
    "brokers that are refused": refused(
        broker("r", {"delivery": {"retry": -1}}),
        broker("r", {"delivery": {"backoffPolicy": "sometimes"}}),
        broker("r", {"delivery": {"backoffDelay": "soon"}}),
        broker("r", {"delivery": {"timeout": "PT0S", "retry": "many"}}),
        broker("r", {"delivery": {"deadLetterSink": {}}}),
        broker("r", {"delivery": {"deadLetterSink": {"uri": "relative"}}}),
        broker("r", {"config": {"kind": "ConfigMap"}}),
        broker("r", "text"),
        broker("r", {"delivery": "text"}),
        broker("Not A Name"),
        broker("r", {}, labels={"no good": "x y"}),
        {"apiVersion": EVENTING, "kind": "Broker", "metadata": {}},
        {"apiVersion": EVENTING, "kind": "Broker"},
        {"apiVersion": EVENTING, "kind": "Trigger", "metadata": {"name": "r"}},
    ),
    "fields that nobody knows": [
        post(broker("u", {"unknown": 1, "delivery": {"alsoUnknown": True}}), "fieldValidation=Strict"),
        post(broker("u", {"unknown": 1, "delivery": {"alsoUnknown": True}}), "fieldValidation=Warn"),
        delete(broker("u")),
        post(broker("u", {"unknown": 1}), "fieldValidation=Ignore"),
        delete(broker("u")),
    ],
    "dry run": [
        post(broker("d"), "dryRun=All"),
        get(broker("d")),
        post(broker("d", {"delivery": {"retry": -1}}), "dryRun=All"),
    ],
    "trigger": life(trigger("t"), {"spec": {"filter": {"attributes": {"type": "order"}}}}),
    "trigger with filters": life(
        trigger(
            "t2", filters=[{"exact": {"type": "a"}}, {"any": [{"prefix": {"source": "/x"}}, {"cesql": "id = '1'"}]}]
        ),
        {"spec": {"delivery": DELIVERY}},
    ),
    "trigger that may not change": [
        post(trigger("t3")),
        patch(trigger("t3"), {"spec": {"broker": "other"}}),
        patch(trigger("t3"), {"spec": {"subscriber": None}}),
        delete(trigger("t3")),
    ],
    "triggers that are refused": refused(
        obj(EVENTING, "Trigger", "r"),
        obj(EVENTING, "Trigger", "r", {}),
        trigger("r", subscriber={}),
        trigger("r", subscriber={"ref": {"kind": "Service"}}),
        trigger("r", subscriber={"uri": "/relative"}),
        trigger("r", filters=[{"cesql": "type ="}]),
        trigger("r", filters=[{"exact": {"Bad-Name": "x"}}]),
        trigger("r", filters=[{"exact": {}}, {"unknown": {}}]),
        trigger("r", filters=[{"exact": {"type": "x"}, "prefix": {"type": "y"}}]),
        trigger("r", filter={"attributes": {"UPPER": "x"}}),
        trigger("r", delivery={"retry": -1}),
        trigger("r", broker=""),
        trigger("r", broker=7),
    ),
    "channel": life(obj(MESSAGING, "Channel", "c"), {"spec": {"delivery": DELIVERY}}),
    "channel with a template": life(
        obj(MESSAGING, "Channel", "c2", {"channelTemplate": {"apiVersion": "example.com/v1", "kind": "OtherChannel"}}),
        {"spec": {"delivery": DELIVERY}},
    ),
    "channels that are refused": refused(
        obj(MESSAGING, "Channel", "r", {"channelTemplate": {"kind": "X"}}),
        obj(MESSAGING, "Channel", "r", {"channelTemplate": {}}),
        obj(MESSAGING, "Channel", "r", {"subscribers": [{"uid": "1"}]}),
        obj(MESSAGING, "Channel", "r", {"delivery": {"backoffDelay": "x"}}),
    ),
    "in-memory channel": life(obj(MESSAGING, "InMemoryChannel", "i"), {"spec": {"delivery": DELIVERY}}),
    "in-memory channels that are refused": [
        post(obj(MESSAGING, "InMemoryChannel", "r")),
        patch(
            obj(MESSAGING, "InMemoryChannel", "r"),
            {"spec": {"subscribers": [{"uid": "1", "subscriberUri": "http://x"}]}},
        ),
        delete(obj(MESSAGING, "InMemoryChannel", "r")),
        post(obj(MESSAGING, "InMemoryChannel", "r", {"subscribers": [{"uid": "1"}]})),
    ],
    "subscription": life(subscription("s"), {"spec": {"delivery": DELIVERY}}),
    "subscription that may not change": [
        post(subscription("s2")),
        patch(subscription("s2"), {"spec": {"channel": {"name": "other"}}}),
        patch(subscription("s2"), {"spec": {"reply": {"uri": "http://reply.example/"}}}),
        delete(subscription("s2")),
    ],
    "subscriptions that are refused": refused(
        obj(MESSAGING, "Subscription", "r", {}),
        subscription("r", channel={"kind": "Channel"}),
        subscription("r", subscriber=None),
        subscription("r", reply={}),
        subscription("r", delivery={"retry": "x"}),
    ),
    "sequence": life(
        obj(FLOWS, "Sequence", "q", {"steps": [STEP, {**STEP, "delivery": DELIVERY}]}), {"spec": {"reply": SINK}}
    ),
    "sequences that are refused": refused(
        obj(FLOWS, "Sequence", "r", {}),
        obj(FLOWS, "Sequence", "r", {"steps": []}),
        obj(FLOWS, "Sequence", "r", {"steps": [{}]}),
    ),
    "parallel": life(obj(FLOWS, "Parallel", "p", {"branches": [{"subscriber": STEP}]}), {"spec": {"reply": SINK}}),
    "parallels that are refused": refused(
        obj(FLOWS, "Parallel", "r", {}), obj(FLOWS, "Parallel", "r", {"branches": [{}]})
    ),
    "ping source": life(
        obj(
            SOURCES,
            "PingSource",
            "g",
            {"schedule": "*/1 * * * *", "data": "{}", "contentType": "application/json", "sink": SINK},
        ),
        {"spec": {"schedule": "*/2 * * * *"}},
    ),
    "ping sources that are refused": refused(
        obj(SOURCES, "PingSource", "r", {"schedule": "often", "sink": SINK}),
        obj(SOURCES, "PingSource", "r", {"schedule": "* * * * *"}),
        obj(SOURCES, "PingSource", "r", {"schedule": "* * * * *", "sink": SINK, "timezone": "Mars/Olympus"}),
        obj(SOURCES, "PingSource", "r", {"schedule": "* * * * *", "sink": SINK, "data": "x", "dataBase64": "eA=="}),
    ),
    "api server source": life(
        obj(SOURCES, "ApiServerSource", "a", {"resources": [{"apiVersion": "v1", "kind": "Pod"}], "sink": SINK}),
        {"spec": {"mode": "Resource"}},
    ),
    "api server sources that are refused": refused(
        obj(SOURCES, "ApiServerSource", "r", {"sink": SINK}),
        obj(SOURCES, "ApiServerSource", "r", {"resources": [{"kind": "Pod"}], "sink": SINK}),
        obj(
            SOURCES,
            "ApiServerSource",
            "r",
            {"resources": [{"apiVersion": "v1", "kind": "Pod"}], "mode": "x", "sink": SINK},
        ),
    ),
    "container source": life(
        obj(SOURCES, "ContainerSource", "n", {"template": POD, "sink": SINK}), {"spec": {"sink": STEP}}
    ),
    "container sources that are refused": refused(
        obj(SOURCES, "ContainerSource", "r", {"sink": SINK}),
        obj(SOURCES, "ContainerSource", "r", {"template": {"spec": {}}, "sink": SINK}),
    ),
    "sink binding": life(
        obj(
            SOURCES,
            "SinkBinding",
            "k",
            {"subject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "sink": SINK},
        ),
        {"spec": {"sink": STEP}},
    ),
    "sink bindings that are refused": refused(
        obj(SOURCES, "SinkBinding", "r", {"sink": SINK}),
        obj(SOURCES, "SinkBinding", "r", {"subject": {"apiVersion": "apps/v1", "kind": "Deployment"}, "sink": SINK}),
    ),
    "event type in each of its versions": [
        post(
            obj(
                "eventing.knative.dev/v1beta2",
                "EventType",
                "e",
                {"type": "order", "source": "/s", "schema": "http://x"},
            )
        ),
        get(obj("eventing.knative.dev/v1beta1", "EventType", "e")),
        get(obj("eventing.knative.dev/v1beta2", "EventType", "e")),
        get(obj("eventing.knative.dev/v1beta3", "EventType", "e")),
        patch(obj("eventing.knative.dev/v1beta3", "EventType", "e"), {"spec": {"description": "told"}}),
        get(obj("eventing.knative.dev/v1beta1", "EventType", "e")),
        delete(obj("eventing.knative.dev/v1beta1", "EventType", "e")),
        post(obj("eventing.knative.dev/v1beta2", "EventType", "r", {})),
        post(obj("eventing.knative.dev/v1beta3", "EventType", "r", {"attributes": []})),
    ],
    "server-side apply": [
        patch(broker("y"), broker("y", {"delivery": {"retry": 3}}), APPLY, "fieldManager=one"),
        patch(broker("y"), broker("y", {"delivery": {"retry": 4}}), APPLY, "fieldManager=one"),
        patch(broker("y"), broker("y", {"delivery": {"retry": 5}}), APPLY, "fieldManager=two"),
        patch(broker("y"), broker("y", {"delivery": {"retry": 5}}), APPLY, "fieldManager=two&force=true"),
        patch(broker("y"), broker("y"), APPLY, "fieldManager=two"),
        patch(broker("y"), broker("y"), APPLY),
        patch(broker("y"), broker("other"), APPLY, "fieldManager=one"),
        delete(broker("y")),
    ],
    "status": [
        post(broker("z")),
        Step("PUT", at(EVENTING, "Broker", "z/status"), {**broker("z"), "status": {"observedGeneration": 1}}),
        patch(broker("z/status"), {"status": {"annotations": {"a": "b"}}, "spec": {"delivery": {"retry": -4}}}),
        get(broker("z")),
        delete(broker("z")),
    ],
    "no such place": [
        Step("POST", "/apis/eventing.knative.dev/v1/namespaces/nowhere/brokers", broker("x")),
        Step("PUT", at(EVENTING, "Broker", "missing"), broker("missing")),
        Step("PUT", at(EVENTING, "Broker", "other"), broker("missing")),
        Step("PATCH", at(EVENTING, "Broker", "x"), {}, "application/strategic-merge-patch+json"),
    ],
    "lists and their columns": [
        post(broker("l1")),
        post(trigger("l2")),
        post(subscription("l3")),
        post(obj(MESSAGING, "Channel", "l4")),
        post(obj(MESSAGING, "InMemoryChannel", "l5")),
        *(
            Step("GET", at(version, kind), accept=TABLE)
            for version, kind in (
                (EVENTING, "Broker"),
                (EVENTING, "Trigger"),
                (MESSAGING, "Subscription"),
                (MESSAGING, "Channel"),
                (MESSAGING, "InMemoryChannel"),
            )
        ),
        Step("GET", at(EVENTING, "Broker", query="labelSelector=a%3Db")),
        Step("GET", at(EVENTING, "Broker", query="fieldSelector=metadata.name%3Dl1")),
        Step("GET", at(EVENTING, "Broker", query="limit=1")),
        Step("DELETE", at(EVENTING, "Broker")),
        Step("DELETE", at(EVENTING, "Trigger")),
        Step("DELETE", at(MESSAGING, "Subscription")),
        Step("DELETE", at(MESSAGING, "Channel")),
        Step("DELETE", at(MESSAGING, "InMemoryChannel")),
    ],
    "features": [
        Step(
            "PATCH",
            "/api/v1/namespaces/knative-eventing/configmaps/config-features?dryRun=All",
            {"data": {"authentication-oidc": "enabled"}, "metadata": {"labels": None}},
            MERGE,
        ),
        Step(
            "PATCH",
            "/api/v1/namespaces/knative-eventing/configmaps/config-features?dryRun=All",
            {"data": {"telepathy": "on"}, "metadata": {"labels": None}},
            MERGE,
        ),
    ],
    "discovery": [Step("GET", f"/apis/{version}") for version in (EVENTING, MESSAGING, FLOWS, SOURCES)],
}

DIFFERENT: dict[str, list[Step]] = {
    "an object of another kind of the same group is stored by Kubernetes, refused here": [
        Step("POST", at(EVENTING, "Broker"), obj(EVENTING, "Trigger", "strange")),
        delete(broker("strange")),
    ],
    "paths that lead nowhere are answered with text by Kubernetes, with a Status here": [
        Step("GET", "/apis/eventing.knative.dev/v1/namespaces/default/nothings"),
        Step("GET", "/apis/eventing.knative.dev/v9/brokers"),
    ],
    "bodies that are no objects are refused in other words": [
        Step("POST", at(EVENTING, "Broker"), "text"),
        Step("POST", at(EVENTING, "Broker"), ["list"]),
        Step("POST", at(EVENTING, "Broker"), {}),
    ],
    "what an apply without any field leaves behind is owned by nobody in Kubernetes, by its manager here": [
        patch(broker("e"), broker("e"), APPLY, "fieldManager=one"),
        patch(broker("e"), broker("e", {"delivery": {"retry": 4}}), APPLY, "fieldManager=one"),
        delete(broker("e")),
    ],
    "a Pod whose volume is a Secret or ConfigMap with a name that has a slash is stored by Kubernetes and never "
    "starts, refused here": [post(WITH_A_SLASH), delete(WITH_A_SLASH)],
}
"""What is known to be answered differently, by the sentence that docs/knative-users.md has on it."""
