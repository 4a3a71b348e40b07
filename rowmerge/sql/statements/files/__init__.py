"""The grammar of statements that name files: COPY INTO and CONVERT TO DELTA."""
