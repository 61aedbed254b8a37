"""What an honest but curious party of zhou2021 learns from the numbers that its protocol gives it,
and what defends against that; attacks see arrays, not protocol objects.

The attacks on wang2018 are in `ppkit.audit`, those on kanodia2020 in `ppkit.backtracking`.
"""
