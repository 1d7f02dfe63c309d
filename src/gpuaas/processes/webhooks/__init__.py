"""The program that takes notices of the payment provider: verified, stored, answered; acted on by the worker."""
