"""All fuzzing targets, by name."""

from fuzzing.target import Target
from fuzzing.targets import archives, data, features, folders, formats, studies, tables

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (tables, formats, features, folders, data, archives, studies)
    for target in module.TARGETS
}
