"""Questions over many documents and over the rows of sheets: cells are read, numbers computed."""
