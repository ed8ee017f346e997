"""What `import forecast` offers."""

import forecast


def test_tab_completion_offers_the_public_names_alone() -> None:
    public = [name for name in dir(forecast) if not name.startswith("_")]
    assert sorted(public) == sorted(forecast.__all__)
    assert all(getattr(forecast, name).__name__ == name for name in public)
