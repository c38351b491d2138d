"""A pytest plugin: mutmut 3.8 reads a private name that pytest 9.2 has no more."""


def pytest_collection_modifyitems(items):
    for item in items:
        item._nodeid = item.nodeid
