"""What tests share: private names, strategies, estimators, statistics and planted bugs."""
