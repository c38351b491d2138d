"""A pytest plugin: mutmut 3.8 reads `item._nodeid`, which pytest 9.2 has removed."""


def pytest_collection_modifyitems(items):
    for item in items:
        item._nodeid = item.nodeid
