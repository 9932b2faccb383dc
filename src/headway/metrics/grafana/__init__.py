"""A dashboard for Grafana, made for the metrics of runs and of `headway ui`. Import it in Grafana under Dashboards → New → Import."""

from pathlib import Path
from typing import Final

DASHBOARD: Final = Path(__file__).parent / "headway.json"
