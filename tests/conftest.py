"""What all tests share: a machine that is busy for a moment fails no property test."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
