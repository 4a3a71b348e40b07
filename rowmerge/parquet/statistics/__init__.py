"""Statistics of data files and columns: in the footers of existing files, and as theta sketches."""
