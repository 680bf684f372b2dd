"""What a YAML file of a user's holds, or a sentence on why it cannot be read."""

from pathlib import Path
from typing import Any

import yaml

from .errors import OffdynError


def read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise OffdynError(f"{path}: cannot be read ({error.strerror})") from None
    except yaml.YAMLError as error:
        raise OffdynError(f"{path}: not YAML ({' '.join(str(error).split())})") from None
    except UnicodeDecodeError as error:
        raise OffdynError(f"{path}: not text ({error})") from None
