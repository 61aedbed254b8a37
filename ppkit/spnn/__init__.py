"""zhou2021: SPNN, a network split between data holders, a server and the holder of the labels."""
