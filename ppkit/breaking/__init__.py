"""Privacy bugs to find and to mend: `ppkit break NAME` puts one into a copy of ppkit.

bugs     the table: what is broken, where, and the key
copies   a student's folder: the broken copy beside the notebooks that notice it
checks   what a mend must keep, tested on the copy
caught   which notebook notices which bug, as it was measured

A copy of ppkit has everything but this room, which holds the answers.
"""
